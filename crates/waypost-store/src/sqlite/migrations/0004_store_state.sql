-- One row: how the store's time hangs on a machine's boot clock, and the epoch that every new lease must exceed.
CREATE TABLE store_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    boot TEXT NOT NULL,
    offset_ms INTEGER NOT NULL,
    is_firm INTEGER NOT NULL CHECK (is_firm IN (0, 1)),
    doubt_wall INTEGER,
    doubt_since INTEGER,
    epoch_floor INTEGER NOT NULL
) STRICT;
INSERT INTO store_state (id, boot, offset_ms, is_firm, epoch_floor) VALUES (1, '', 0, 1, 0);
