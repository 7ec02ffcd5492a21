# The agent's package installs with python3 and python3-msgpack alone, measures the host, and is removed without a trace.
dpkg --install /dist/lbdns-agent_"$VERSION"-1_all.deb
lbdns-agent --version
sample
dpkg --purge lbdns-agent
nothing_is_left
