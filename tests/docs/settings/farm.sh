# A server with its configuration in /etc/lbdns, and three web servers with agents on the addresses of the documentation
source tests/docs/settings/installed.sh
install -d -o lbdns /var/log/lbdns
printf '[query_log]\nfile = "/var/log/lbdns/queries.log"\nsample = 1\n' >> /etc/lbdns/lbdns.toml
sed -i 's/^names = .*/&\njoin = { names = "web-*", networks = ["10.0.0.0\/8"] }/' /etc/lbdns/lbdns.toml
lbdns serve --log-level error &
number=0
for host in gandalf frodo bilbo; do
    number=$((number + 1))
    (umask 077; lbdns keygen --agent $host --master /etc/lbdns/report.key > "$SANDBOX/$host.key")
    python -m lbdns.demo.webserver --name $host --listen 192.0.2.$number:80 &
    lbdns-agent --collector 10.0.0.5 --key-file "$SANDBOX/$host.key" --gateway off --log-level error \
        --server-status "http://192.0.2.$number/server-status?auto" &
done
install -m 600 "$SANDBOX/gandalf.key" /etc/lbdns/agent.key
tests/docs/settings/until_usable.sh
lbdns ask best.hobbit > /dev/null
tries=0
until history_error=$(lbdns history 2>&1 > /dev/null); do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "no history after $tries tries: $history_error" >&2; exit 1; }
    sleep 0.2
done
