# 'pip install lbdns' takes the fast path from a wheel: there is no compiler, and no network.
fails command -v cc
fails command -v cargo
python3 -m venv /opt/lbdns
/opt/lbdns/bin/pip install --quiet --no-index --find-links /dist --find-links /wheels lbdns lbdns-tools
/opt/lbdns/bin/lbdns --version | grep -Fx 'native extension: installed'
mkdir -p /run/lbdns /var/lib/lbdns
cp -r /example /tmp/example
sed -i /^user/d /tmp/example/lbdns.toml
serve_example /tmp/example/lbdns.toml /opt/lbdns/bin/lbdns
grep -q 'native plane' /tmp/serve.log
/opt/lbdns/bin/lbdns-sim --version
