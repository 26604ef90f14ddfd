/**
 * What tasks do: {@code Sampler} looks at their stacks, {@code Stacks} and {@code Work} name what each does, and {@code
 * TaskSamples} counts it for a stage attempt. Executors send the counts to the driver.
 */
package io.joinsight.sampling;
