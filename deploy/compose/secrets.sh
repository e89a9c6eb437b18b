#!/bin/sh
# Makes the secrets of compose.yaml, once. Keep secrets/master_key: without it, no secret of a job
# can be read again.
set -eu
cd "$(dirname "$0")"
random() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
mkdir -p secrets
chmod 700 secrets
[ -s secrets/postgres_password ] || random > secrets/postgres_password
[ -s secrets/master_key ] || random > secrets/master_key
printf 'postgres://punctual:%s@postgres/punctual' "$(cat secrets/postgres_password)" > secrets/store
# The containers' users read them; the folder keeps all others out.
chmod 644 secrets/*
