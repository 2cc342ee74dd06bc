#!/bin/sh
# Create the role `grafana`, which can only read the views of the schema `dashboard`, also those of
# later versions. Run it once, as the user that owns Moirae's database, with CREATEROLE.
# Connection: the PG… variables of psql. Password of the role: GRAFANA_DATABASE_PASSWORD.
set -eu
: "${GRAFANA_DATABASE_PASSWORD:?set the password of the role grafana}"
export GRAFANA_DATABASE_PASSWORD
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
\getenv password GRAFANA_DATABASE_PASSWORD
BEGIN;
CREATE ROLE grafana LOGIN PASSWORD :'password';
ALTER ROLE grafana SET default_transaction_read_only = on;
ALTER ROLE grafana SET statement_timeout = '30s';
CREATE SCHEMA IF NOT EXISTS dashboard;
GRANT USAGE ON SCHEMA dashboard TO grafana;
GRANT SELECT ON ALL TABLES IN SCHEMA dashboard TO grafana;
ALTER DEFAULT PRIVILEGES IN SCHEMA dashboard GRANT SELECT ON TABLES TO grafana;
COMMIT;
SQL
