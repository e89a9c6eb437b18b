-- A message as its worker gets it.
SELECT m.run_id, m.workspace, r.parameters, 9 - m.urgency, r.attempts + r.lost + 1, r.scheduled_for,
    r.created_at
FROM messages AS m CROSS JOIN runs AS r ON r.seq = m.seq WHERE m.seq = ?1
