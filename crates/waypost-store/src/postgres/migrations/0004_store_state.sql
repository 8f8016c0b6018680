-- One row: how the store's time hangs on a machine's boot clock, and the epoch that every new lease must exceed.
CREATE TABLE store_state (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    boot TEXT COLLATE "C" NOT NULL,
    offset_ms BIGINT NOT NULL,
    is_firm BIGINT NOT NULL CHECK (is_firm IN (0, 1)),
    doubt_wall BIGINT,
    doubt_since BIGINT,
    epoch_floor BIGINT NOT NULL
);
INSERT INTO store_state (id, boot, offset_ms, is_firm, epoch_floor) VALUES (1, '', 0, 1, 0);

-- The server that the store is on: its system identifier and its timeline.
ALTER TABLE about ADD COLUMN server TEXT;
