-- Whether a claim lists what was granted with it. Not when ticks were taken out of it again, so that who holds the rest
-- has to look.
ALTER TABLE claims ADD COLUMN whole boolean NOT NULL DEFAULT true;
