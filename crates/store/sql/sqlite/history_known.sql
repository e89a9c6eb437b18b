-- Whether a run has ended already, and under which fence.
SELECT outcome, fence FROM history WHERE id = ?1
