# A NATS server and a server that subscribes, with the files of scale.md, and agents that publish, except gandalf's
source tests/docs/settings/installed.sh
sed -n '/^cat > .*nats-server.conf/,/^END$/p' docs/scale.md | bash
hostname ns1  # the sandbox has a host name of its own
nats-server -c /etc/nats-server.conf --log /dev/null &
password() { sed -n "s/.*{user: $1, password: \"\([^\"]*\)\".*/\1/p" /etc/nats-server.conf; }
sed -n '/^\[bus\]/,/^password_file/p; /^password_file/q' docs/scale.md >> /etc/lbdns/lbdns.toml
(umask 077; password collector > /etc/lbdns/bus.password)
chown lbdns: /etc/lbdns/bus.password
lbdns serve --log-level error &
number=0
for host in gandalf frodo bilbo; do
    number=$((number + 1))
    (umask 077; lbdns keygen --agent $host --master /etc/lbdns/report.key > "$SANDBOX/$host.key")
    (umask 077; password $host > "$SANDBOX/$host.password")
    python -m lbdns.demo.webserver --name $host --listen 192.0.2.$number:80 &
    [ $host = gandalf ] && continue
    lbdns-agent --bus nats://$host@10.0.0.5:4222 --bus-password-file "$SANDBOX/$host.password" --pool web \
        --key-file "$SANDBOX/$host.key" --gateway off --log-level error --server-status off &
done
install -m 600 "$SANDBOX/gandalf.key" /etc/lbdns/agent.key
install -m 600 "$SANDBOX/gandalf.password" /etc/lbdns/agent-bus.password
install -m 600 "$SANDBOX/frodo.password" /etc/lbdns/agent-bus-frodo.password
source tests/docs/settings/await.sh
two_are_usable() { [ "$(lbdns status | grep -c ' usable ')" -ge 2 ]; }
await "not both web servers are usable" two_are_usable
