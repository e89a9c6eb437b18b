-- Whether a run waits for something other than its time.
SELECT wait <> 0 FROM runs WHERE id = $1
