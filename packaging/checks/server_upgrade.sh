# In a machine that runs systemd: an upgrade by apt, a reload and a restart lose no query, a downgrade loses none and
# keeps the state, or is refused if the older version cannot read the state, and a purge leaves nothing behind.
export DEBIAN_FRONTEND=noninteractive
trap '[ $? = 0 ] || journalctl --unit lbdns --no-pager' EXIT

install_package() {
    apt-get install --yes --quiet=2 --allow-downgrades -o Dpkg::Options::=--force-confold "$1"
}

# under_load NAME COMMAND...: run the command while a client sends queries; fail if one of them is lost
under_load() {
    name=$1
    shift
    rm -f /run/answering
    python3 /query_load.py "$RATE" /run/answering > /run/load.json &
    client=$!
    for _ in $(seq 600); do
        if [ -e /run/answering ]; then break; fi
        sleep 0.1
    done
    [ -e /run/answering ]
    began=$(date +%s)
    sleep 1
    "$@"
    took=$(($(date +%s) - began - 1))
    sleep 1
    kill "$client"
    status=0
    wait "$client" || status=$?
    echo "RESULT $name, $took s: $(cat /run/load.json)"
    [ "$status" = 0 ]
}

installed() {
    dpkg-query --show --showformat '${Version}' lbdns
}

drained() {
    lbdns status --json | python3 -c 'import json, sys; print([member["name"] for pool in json.load(sys.stdin)["pools"] for member in pool["members"] if member["state"] == "drained"])'
}

install_package "/dist/lbdns_$VERSION-1~deb${RELEASE}_amd64.deb"
# All queries come from one address
printf '\n[rate_limit]\nresponses_per_second = 0\n' >> /etc/lbdns/lbdns.toml
systemctl start lbdns
lbdns --version | grep -Fx 'native extension: installed'
journalctl --sync
journalctl --unit lbdns --no-pager | grep 'ready: .*, native plane'
lbdns drain web1

under_load upgrade install_package /newer/newer.deb
[ "$(installed)" = "$NEWER-1~deb$RELEASE" ]
lbdns --version | grep -Fx "lbdns $NEWER"
grep -Fx 'responses_per_second = 0' /etc/lbdns/lbdns.toml
under_load reload systemctl reload lbdns
under_load restart systemctl restart lbdns
[ "$(drained)" = "['web1']" ]

under_load downgrade install_package "/dist/lbdns_$VERSION-1~deb${RELEASE}_amd64.deb"
lbdns --version | grep -Fx "lbdns $VERSION"
[ "$(drained)" = "['web1']" ]

# A version that writes its state in another format. It keeps running when its downgrade is refused
under_load 'upgrade to another state format' install_package /newer/other-format.deb
downgrade() {
    fails install_package "/dist/lbdns_$VERSION-1~deb${RELEASE}_amd64.deb" > /run/refused 2>&1
}
under_load 'refused downgrade' downgrade
grep -F 'reads formats up to' /run/refused
dpkg --audit
[ "$(installed)" = "$NEWER-2~deb$RELEASE" ]
[ "$(drained)" = "['web1']" ]

# Removed and installed again, it starts at boot as before
apt-get remove --yes --quiet=2 lbdns
[ -e /var/lib/lbdns/overrides.json ]
install_package /newer/other-format.deb
systemctl is-enabled lbdns

apt-get purge --yes --quiet=2 lbdns
fails getent passwd lbdns
fails getent group lbdns
nothing_is_left
touch /passed
