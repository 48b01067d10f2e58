-- A database as schema version 5 left it.
PRAGMA application_id = 1919902319;
PRAGMA user_version = 5;

CREATE TABLE texts (
	id     INTEGER PRIMARY KEY,
	sha256 TEXT    NOT NULL UNIQUE,
	gzip   BLOB    NOT NULL
) STRICT;

CREATE TABLE policies (
	origin        TEXT    PRIMARY KEY,
	status        INTEGER NOT NULL,
	text_id       INTEGER NOT NULL,
	fetched_at    INTEGER NOT NULL,
	expires_at    INTEGER NOT NULL,
	failed_since  INTEGER NOT NULL,
	failed_status INTEGER NOT NULL,
	failures      INTEGER NOT NULL,
	next_try      INTEGER NOT NULL,
	cause         TEXT    NOT NULL
, user_agent TEXT NOT NULL DEFAULT '', cdn TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;

CREATE TABLE versions (
	origin     TEXT    NOT NULL,
	text_id    INTEGER NOT NULL,
	status     INTEGER NOT NULL,
	first_seen INTEGER NOT NULL,
	last_seen  INTEGER NOT NULL,
	PRIMARY KEY (origin, text_id, status)
) STRICT, WITHOUT ROWID;

CREATE INDEX versions_of_text ON versions (text_id) WHERE text_id != 0;

CREATE TABLE sweep (
	origin TEXT NOT NULL
) STRICT;

INSERT INTO sweep (origin) VALUES ('');

INSERT INTO texts (id, sha256, gzip) VALUES
	(1, '5b4b6488c58730cb6c16b8ba27fe76f7a93ed2b55596f53305e31f0a593a7d94', X'1f8b08000000000002030b2d4e2dd24d4c4fcd2bb152d0e272c92c4eccc9c92fb752d0cf4b2dd7e70200b06234821e000000');

INSERT INTO policies VALUES
	('https://down.example', 0, 0, 0, 0, 1767355200000, 503, 2, 1767355260001, '503 Service Unavailable', '', ''),
	('https://one.example', 200, 1, 1767355200000, 1767441600000, 0, 0, 0, 0, '', 'ExampleBot/2.0', 'cloudflare');

INSERT INTO versions VALUES
	('https://one.example', 1, 200, 1767355200000, 1767355200000);

CREATE TABLE days (
	day       TEXT    PRIMARY KEY,
	decisions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE counts (
	day             TEXT    NOT NULL,
	origin          TEXT    NOT NULL,
	identity        TEXT    NOT NULL,
	outcome         TEXT    NOT NULL,
	verdict         TEXT    NOT NULL,
	reason          TEXT    NOT NULL,
	rule            TEXT    NOT NULL,
	preference      TEXT    NOT NULL,
	cause           TEXT    NOT NULL,
	override_reason TEXT    NOT NULL,
	requests        INTEGER NOT NULL,
	paced           INTEGER NOT NULL,
	waited_ms       INTEGER NOT NULL,
	PRIMARY KEY (day, origin, identity, outcome, verdict, reason, rule, preference, cause, override_reason)
) STRICT, WITHOUT ROWID;

INSERT INTO days (day, decisions) VALUES ('1970-01-08', 1);

INSERT INTO counts (day, origin, identity, outcome, verdict, reason, rule, preference, cause, override_reason, requests, paced, waited_ms)
VALUES ('1970-01-08', 'https://one.example', 'images', 'passed', 'allowed', 'no_rule', '', '', '', '', 7, 2, 1500);
