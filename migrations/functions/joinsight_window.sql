CREATE FUNCTION joinsight_window(since timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(as_of), since) FROM baseline WHERE as_of <= since AND as_of > since - interval '1 day'
$$;
COMMENT ON FUNCTION joinsight_window IS 'The best start of a window that begins at this time: the latest baselines of the day before, if there are any.';
