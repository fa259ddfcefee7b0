#!/bin/bash
# Runs once, when the database is made. The services sign in as toolbus_app,
# which owns nothing and acts as the two roles that row-level security knows;
# `toolbus migrate` finds those roles and grants them what they need.
set -euo pipefail

psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
	--set=password="$TOOLBUS_DB_PASSWORD" <<'SQL'
CREATE ROLE toolbus_service NOLOGIN NOSUPERUSER NOBYPASSRLS;
CREATE ROLE toolbus_sweeper NOLOGIN NOSUPERUSER NOBYPASSRLS;
CREATE ROLE toolbus_app LOGIN NOINHERIT NOSUPERUSER NOBYPASSRLS PASSWORD :'password';
GRANT toolbus_service, toolbus_sweeper TO toolbus_app;
GRANT CONNECT ON DATABASE toolbus TO toolbus_app;
SQL
