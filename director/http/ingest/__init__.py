"""Reports: bytes from a region → a validated report, a row in Postgres, and an answer that says what was left out."""
