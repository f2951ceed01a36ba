#!/usr/bin/env bash
# A PostgreSQL for the tests, on loopback, with its data in a folder that is not there yet:
#
#     .ci/postgres.sh start FOLDER    prints the URL that SQLAlchemy takes
#     .ci/postgres.sh stop FOLDER     stops it and removes the folder
#
# Debian's package is installed where there is none. PostgreSQL refuses to run as root; the
# package's own user stands in.
set -euo pipefail

action=$1
folder=$2

binaries() {
    find /usr/lib/postgresql -path '*/bin/initdb' 2> /dev/null | sort -V | tail -n 1 | xargs -r dirname
}

as_owner() {
    if [[ $(id -u) -eq 0 ]]; then
        (cd / && runuser -u postgres -- "$@")
    else
        "$@"
    fi
}

start() {
    if [[ -z $(binaries) ]]; then
        apt-get -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y postgresql > /dev/null
    fi
    local bin port
    bin=$(binaries)
    port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    mkdir "$folder"
    if [[ $(id -u) -eq 0 ]]; then
        chown postgres "$folder"
    fi
    as_owner "$bin/initdb" -D "$folder/data" -U mmconv -A trust -E UTF8 --no-sync > /dev/null
    # fsync is for machines that may lose power, not for data that is thrown away
    as_owner "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w -s start \
        -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    echo "postgresql+psycopg://mmconv@127.0.0.1:$port/postgres"
}

stop() {
    as_owner "$(binaries)/pg_ctl" -D "$folder/data" -m immediate -s stop
    rm -rf "$folder"
}

"$action"
