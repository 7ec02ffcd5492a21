# A server for lb.example.net, and BIND on 192.0.2.54 with the parent zone, whose records are those of production.md
getent passwd lbdns > /dev/null || useradd --system --user-group --no-create-home --shell /usr/sbin/nologin lbdns
rm -rf /etc/lbdns
lbdns init --zone lb.example.net --address 192.0.2.53 \
    --member gandalf=192.0.2.1 --member frodo=192.0.2.2 --member bilbo=192.0.2.3
lbdns serve --log-level error &
mkdir -p /etc/bind /var/cache/bind
zone=/etc/bind/example.net.zone
printf '$TTL 1h\n@ SOA ns hostmaster 1 1h 15m 1w 5m\n@ NS ns\nns A 192.0.2.54\n' > $zone
sed -n '/^lb  *NS/,/^www  *CNAME/p' docs/tasks/production.md >> $zone
cat > /etc/bind/parent.conf << 'END'
options { directory "/var/cache/bind"; listen-on { 192.0.2.54; }; listen-on-v6 { none; }; recursion no; pid-file none; };
controls { };
zone "example.net" { type primary; file "/etc/bind/example.net.zone"; };
END
named -f -c /etc/bind/parent.conf &
source tests/docs/settings/await.sh
parent_answers() { dig @192.0.2.54 example.net SOA +short +tries=1 +time=1 | grep -q hostmaster; }
lbdns_answers() { lbdns ask lb.example.net SOA +short | grep -q hostmaster; }
await "BIND does not answer" parent_answers
await "lbdns does not answer" lbdns_answers
