-- find_events --
-- Events by a range of IDs: of the event, of its alert, or of an event that only recalls still name.
SELECT eid FROM events WHERE eid BETWEEN %(low)s AND %(high)s
UNION
SELECT eid FROM alerts WHERE id BETWEEN %(low)s AND %(high)s
UNION
SELECT eid FROM tasks WHERE eid BETWEEN %(low)s AND %(high)s
LIMIT 2

-- find_recalls --
-- Recalls by a range of IDs.
SELECT id FROM tasks WHERE id BETWEEN %(low)s AND %(high)s LIMIT 2

-- find_events_of_recalls --
-- The events of recalls by a range of the recalls' IDs.
SELECT DISTINCT eid FROM tasks WHERE id BETWEEN %(low)s AND %(high)s LIMIT 2
