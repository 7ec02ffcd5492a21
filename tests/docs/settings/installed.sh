# A name server with its user and with its configuration in /etc/lbdns, where nothing runs yet
getent passwd lbdns > /dev/null || useradd --system --user-group --no-create-home --shell /usr/sbin/nologin lbdns
rm -rf /etc/lbdns
lbdns init --zone hobbit --address 10.0.0.5 \
    --member gandalf=192.0.2.1 --member frodo=192.0.2.2 --member bilbo=192.0.2.3
