-- live_silent --
-- Seconds since the live process gave a sign of life; no row where none runs.
SELECT extract(epoch FROM clock_timestamp() - beat_at)::float8 FROM processes
WHERE role = 'live' AND state IN ('running', 'draining') AND beat_at > clock_timestamp() - interval '1 minute'
