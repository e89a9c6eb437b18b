-- A message that has not ended.
SELECT m.seq, m.queue_id, m.state, m.order_at, m.ordering_key, m.fence, m.leased_at, r.tenant_id, r.attempts, r.lost,
    r.cancel_code, r.cancel_text
FROM messages AS m CROSS JOIN runs AS r ON r.seq = m.seq WHERE m.run_id = ?1
