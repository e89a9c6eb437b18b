-- What nodes execute and since when.
SELECT starts FROM node_starts
