-- Whether any run still asks for a place. Most runs ask for none and are not here.
CREATE INDEX runs_placed ON runs (lane) WHERE lane IS NOT NULL;
