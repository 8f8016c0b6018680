#!/bin/sh
# Compiles a crate with the defects that `cargo xtask seeded` plants.
exec "$@" --cfg waypost_seeded_bugs
