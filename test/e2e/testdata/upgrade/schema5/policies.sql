-- What the program of schema version 5 left, as sqlite3's .dump writes it.
PRAGMA application_id = 1919902319;
PRAGMA user_version = 5;
PRAGMA auto_vacuum = 2;
BEGIN TRANSACTION;
CREATE TABLE texts (
	id     INTEGER PRIMARY KEY,
	sha256 TEXT    NOT NULL UNIQUE,
	gzip   BLOB    NOT NULL
) STRICT;
INSERT INTO texts VALUES(1,'43761ba1ee03b948ea70718e080e5e40c9d679656c203aa17480cb134b965442',X'1f8b08000000000000ff0a2d4e2dd24d4c4fcd2bb152d0e272c92c4eccc9c92fb752d0cfcf49d1e702040000ffffa3193cdc1e000000');
INSERT INTO texts VALUES(2,'5b4b6488c58730cb6c16b8ba27fe76f7a93ed2b55596f53305e31f0a593a7d94',X'1f8b08000000000000ff0a2d4e2dd24d4c4fcd2bb152d0e272c92c4eccc9c92fb752d0cf4b2dd7e702040000ffffb06234821e000000');
INSERT INTO texts VALUES(3,'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',X'1f8b08000000000000ff010000ffff0000000000000000');
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
INSERT INTO policies VALUES('http://down.example',0,0,0,0,1795340205667,503,1,1795340235667,'503 Service Unavailable','','');
INSERT INTO policies VALUES('http://one.example',200,2,1795340205120,1795426605120,0,0,0,0,'','','cloudflare');
INSERT INTO policies VALUES('http://three.example',200,2,1795340205527,1795426605527,0,0,0,0,'','','cloudflare');
INSERT INTO policies VALUES('http://two.example',404,0,1795340205408,1795426605408,0,0,0,0,'','','');
INSERT INTO policies VALUES('http://two.example/.well-known/tdmrep.json',200,3,1795340205762,1795426605762,0,0,0,0,'the answer is no tdmrep.json','ExampleBot-Image/1.0 (+https://example.org/bot)','');
INSERT INTO policies VALUES('https://four.example',0,0,0,0,1795340205820,0,1,1795340235820,'Unsupported method (''CONNECT'')','','');
CREATE TABLE versions (
	origin     TEXT    NOT NULL,
	text_id    INTEGER NOT NULL,
	status     INTEGER NOT NULL,
	first_seen INTEGER NOT NULL,
	last_seen  INTEGER NOT NULL,
	PRIMARY KEY (origin, text_id, status)
) STRICT, WITHOUT ROWID;
INSERT INTO versions VALUES('http://one.example',1,200,1795340203207,1795340203207);
INSERT INTO versions VALUES('http://one.example',2,200,1795340205120,1795340205120);
INSERT INTO versions VALUES('http://three.example',2,200,1795340205527,1795340205527);
INSERT INTO versions VALUES('http://two.example',0,404,1795340205408,1795340205408);
INSERT INTO versions VALUES('http://two.example/.well-known/tdmrep.json',3,200,1795340205762,1795340205762);
CREATE TABLE sweep (
	origin TEXT NOT NULL
) STRICT;
INSERT INTO sweep VALUES('');
CREATE TABLE days (
	day       TEXT    PRIMARY KEY,
	decisions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO days VALUES('2026-11-22',10);
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
INSERT INTO counts VALUES('2026-11-22','http://down.example','default','refused','disallowed','unreachable','','','503 Service Unavailable','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','http://one.example','default','passed','allowed','no_rule','','','','',3,0,0);
INSERT INTO counts VALUES('2026-11-22','http://one.example','default','refused','disallowed','rule','Disallow: /new/','','','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','http://one.example','default','refused','disallowed','rule','Disallow: /old/','','','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','http://one.example','image-crawler','refused','disallowed','rule','Disallow: /new/','','','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','http://three.example','default','passed','allowed','no_rule','','','','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','http://three.example','default','refused','disallowed','rule','Disallow: /new/','','','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','http://two.example','default','passed','allowed','unavailable','','','','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','http://two.example','image-crawler','passed','allowed','unavailable','','','','',1,0,0);
INSERT INTO counts VALUES('2026-11-22','https://four.example','default','refused','disallowed','unreachable','','','Unsupported method (''CONNECT'')','',1,0,0);
CREATE INDEX versions_of_text ON versions (text_id) WHERE text_id != 0;
COMMIT;
