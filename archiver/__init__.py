"""The archive: Delta tables of streams, cut into chunks of event time queried one by one."""
