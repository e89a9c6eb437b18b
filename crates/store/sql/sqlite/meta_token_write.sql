-- Where fencing tokens go on when the file is opened.
UPDATE meta SET token = ?1
