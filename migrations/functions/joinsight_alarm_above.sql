-- From where on a measure is worse than usual: by a share, by an amount, and by more than the usual runs scatter, which few
-- of them tell less well.
CREATE FUNCTION joinsight_alarm_above(
    baseline double precision, spread double precision, runs bigint, at_least double precision,
    mads double precision, minimum_change double precision
) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(
        baseline * (1 + minimum_change), baseline + at_least, baseline + mads * (1 + 5.0 / runs) * spread)
$$;
COMMENT ON FUNCTION joinsight_alarm_above IS 'From where on joinsight_regressions takes a measure for worse. Internal: it may change.';
