-- One row: the identity and the progress of this index.
CREATE TABLE about (
    identity TEXT NOT NULL,
    -- Seeds the hashes of lines, so that no author of a ledger can construct a collision.
    salt     INTEGER NOT NULL,
    -- Grows with every change.
    revision INTEGER NOT NULL,
    -- The lines up to this one are in the full-text index; below 0 if there is none yet.
    searched INTEGER NOT NULL,
    -- Whether the indexes for lists exist.
    has_lists INTEGER NOT NULL
);

CREATE TABLE ledger (
    ledger INTEGER PRIMARY KEY,
    path   BLOB NOT NULL,
    -- The file's stamp when it was read; empty if there was no file; null if a change might not show in it.
    stamp  BLOB,
    -- Number of damaged lines.
    unread INTEGER NOT NULL,
    -- Whether it has conflict markers. Then its lines here are those of the merged file.
    conflicted INTEGER NOT NULL,
    -- Number of issues that another program took back. Its lines here are those with these issues put back.
    restored INTEGER NOT NULL
);

-- The lines of each ledger. They are a table of their own, because an update of a row reads all of it.
CREATE TABLE mark (
    ledger INTEGER PRIMARY KEY,
    -- For each line, in order: its hash and its row in `line`.
    marks  BLOB NOT NULL
);

-- The lines that are issues, byte for byte.
CREATE TABLE line (
    line   INTEGER PRIMARY KEY,
    ledger INTEGER NOT NULL,
    id     TEXT NOT NULL,
    -- Sorts the issues that a search for common words finds: 0 if it is closed or deleted, else 5 for the highest
    -- priority to 1 for the lowest.
    rank   INTEGER NOT NULL,
    raw    TEXT NOT NULL
);

-- One row for each id, from its effective line.
CREATE TABLE issue (
    id          TEXT PRIMARY KEY,
    line        INTEGER NOT NULL,
    ledger      INTEGER NOT NULL,
    title       TEXT NOT NULL,
    status      TEXT NOT NULL,
    -- 0 active, 1 in progress, 2 frozen, 3 done, 4 deleted: below 3 is open.
    category    INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    issue_type  TEXT NOT NULL,
    assignee    TEXT,
    created_at  INTEGER,
    updated_at  INTEGER,
    closed_at   INTEGER,
    due_at      INTEGER,
    defer_until INTEGER,
    parent_id   TEXT,
    -- Null for canonical issues.
    visibility  TEXT,
    created_by  TEXT,
    -- A newline before each label and after the last.
    labels      TEXT NOT NULL,
    is_pinned   INTEGER NOT NULL,
    -- The word for a record that is not work; null for work.
    not_work    TEXT,
    urgency     INTEGER NOT NULL,
    is_ready    INTEGER NOT NULL,
    waits_for   INTEGER NOT NULL,
    is_held     INTEGER NOT NULL,
    wakes_at    INTEGER,
    freed_at    INTEGER,
    -- The united record of several lines with one id; null for a single line.
    united      TEXT
) WITHOUT ROWID;

-- Numbers of issues, by ledger. A number of 0 has no row.
CREATE TABLE counter (
    -- 0 all by status, 1 open by type, 2 open by priority, 3 open by label, 4 ready by time, 5 blocked, 6 blocked by time.
    kind   INTEGER NOT NULL,
    value  TEXT NOT NULL,
    ledger INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (kind, value, ledger)
) WITHOUT ROWID;

CREATE TABLE edge (
    id    TEXT NOT NULL,
    other TEXT NOT NULL,
    kind  TEXT NOT NULL,
    PRIMARY KEY (id, other, kind)
) WITHOUT ROWID;
