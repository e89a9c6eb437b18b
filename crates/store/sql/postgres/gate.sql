-- Who changes claims or waits goes through one at a time; claims get their numbers here.
UPDATE gate SET fence = fence + $1 RETURNING fence, clock() AS now
