-- notify --
-- Wake the processes that listen on a channel, when the transaction commits.
SELECT pg_notify(%(channel)s, '')
