# Server and tools install without a network, answer natively, and are removed without a trace.
dpkg --install /dist/lbdns_"$VERSION"-1~deb"$RELEASE"_amd64.deb /dist/lbdns-tools_"$VERSION"-1~deb"$RELEASE"_all.deb
lbdns --version
lbdns-collector --version
lbdns check
serve_example /etc/lbdns/lbdns.toml lbdns
grep -q 'native plane' /tmp/serve.log
for tool in lbdns-sim lbdns-load lbdns-calibrate lbdns-scaler lbdns-lab; do "$tool" --version; done
lbdns-sim --servers 1x1,2x1 --load 0.5 --duration 60 --seeds 1
dpkg --purge lbdns-tools lbdns
fails getent passwd lbdns
nothing_is_left
