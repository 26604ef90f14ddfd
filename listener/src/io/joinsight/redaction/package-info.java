/**
 * Secrets are masked before a text leaves the driver. {@code redaction.json} has the words and patterns, which have the
 * names below; this is their grammar.
 *
 * <pre>
 * text      = user's patterns, shapes, URLs, then named secrets; if one of them fails, all of the text is masked
 * named     = name link secret | secret comparison name | cipher "(" arguments ")" | name "." method "(" arguments ")"
 * name      = a word with a part in names or that matches Spark's own patterns
 * link      = [id] [closers] ( sign | word sign | "(" | VALUES | "." method "(" | "," | blanks )
 * secret    = quoted | made | bare | "(" ... ")" , and what MORE joins to it; the operand of a plan's column
 * quoted    = a text in quotes, whose quote is doubled or escaped inside; if it never ends, all of the rest
 * made      = a call that makes a text, to its closing bracket
 * bare      = up to blanks, quotes or a separator that ends the value (see NEXT); only after a sign or an option's name
 * operand   = up to the bracket that closes around it, because plans write literals without quotes
 * structure = columns, calls and operators without a literal; it is no secret and stays readable
 * </pre>
 *
 * <p>A column of a plan is a word with an id, {@code password#12}, or a field of one. {@code Redaction} applies the
 * order, {@code NamedSecrets} finds names and their secrets, {@code TextScanner} finds where they end, {@code
 * UserPattern} bounds what a user's pattern may cost, and {@code Literals} removes literals if a user wants that.
 */
package io.joinsight.redaction;
