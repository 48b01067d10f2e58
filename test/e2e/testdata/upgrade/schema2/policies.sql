-- What the program of schema version 2 left, as sqlite3's .dump writes it.
PRAGMA application_id = 1919902319;
PRAGMA user_version = 2;
PRAGMA auto_vacuum = 2;
BEGIN TRANSACTION;
CREATE TABLE texts (
	id     INTEGER PRIMARY KEY,
	sha256 TEXT    NOT NULL UNIQUE,
	gzip   BLOB    NOT NULL
) STRICT;
INSERT INTO texts VALUES(1,'43761ba1ee03b948ea70718e080e5e40c9d679656c203aa17480cb134b965442',X'1f8b08000000000000ff0a2d4e2dd24d4c4fcd2bb152d0e272c92c4eccc9c92fb752d0cfcf49d1e702040000ffffa3193cdc1e000000');
INSERT INTO texts VALUES(2,'5b4b6488c58730cb6c16b8ba27fe76f7a93ed2b55596f53305e31f0a593a7d94',X'1f8b08000000000000ff0a2d4e2dd24d4c4fcd2bb152d0e272c92c4eccc9c92fb752d0cf4b2dd7e702040000ffffb06234821e000000');
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
) STRICT, WITHOUT ROWID;
INSERT INTO policies VALUES('http://down.example',0,0,0,0,1795339545755,503,1,1795339575755,'503 Service Unavailable');
INSERT INTO policies VALUES('http://one.example',200,2,1795339545041,1795425945041,0,0,0,0,'');
INSERT INTO policies VALUES('http://three.example',200,2,1795339545562,1795425945562,0,0,0,0,'');
INSERT INTO policies VALUES('http://two.example',404,0,1795339545450,1795425945450,0,0,0,0,'');
INSERT INTO policies VALUES('https://four.example',0,0,0,0,1795339546221,0,1,1795339576221,'Unsupported method (''CONNECT'')');
CREATE TABLE versions (
	origin     TEXT    NOT NULL,
	text_id    INTEGER NOT NULL,
	status     INTEGER NOT NULL,
	first_seen INTEGER NOT NULL,
	last_seen  INTEGER NOT NULL,
	PRIMARY KEY (origin, text_id, status)
) STRICT, WITHOUT ROWID;
INSERT INTO versions VALUES('http://one.example',1,200,1795339543056,1795339543056);
INSERT INTO versions VALUES('http://one.example',2,200,1795339545041,1795339545041);
INSERT INTO versions VALUES('http://three.example',2,200,1795339545562,1795339545562);
INSERT INTO versions VALUES('http://two.example',0,404,1795339545450,1795339545450);
CREATE TABLE sweep (
	origin TEXT NOT NULL
) STRICT;
INSERT INTO sweep VALUES('');
CREATE INDEX versions_of_text ON versions (text_id) WHERE text_id != 0;
COMMIT;
