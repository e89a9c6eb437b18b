-- The holder of a run is asked to stop it.
UPDATE runs SET cancel_code = ?2, cancel_text = ?3 WHERE seq = ?1
