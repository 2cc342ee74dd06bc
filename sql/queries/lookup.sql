-- events --
-- Events by a range of IDs: an event's own, its alert's, or as a recall names it when nothing else of it is left.
SELECT eid FROM events WHERE eid BETWEEN %(low)s AND %(high)s
UNION
SELECT eid FROM alerts WHERE id BETWEEN %(low)s AND %(high)s
UNION
SELECT eid FROM tasks WHERE eid BETWEEN %(low)s AND %(high)s
LIMIT 2

-- recalls --
-- Recalls by a range of IDs.
SELECT id FROM tasks WHERE id BETWEEN %(low)s AND %(high)s LIMIT 2

-- events_of_recalls --
-- The events of recalls by a range of the recalls' IDs.
SELECT DISTINCT eid FROM tasks WHERE id BETWEEN %(low)s AND %(high)s LIMIT 2
