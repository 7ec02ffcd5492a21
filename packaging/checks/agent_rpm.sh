# The agent's RPM names its dependencies, installs, measures the host, and is removed without a trace. rpm does not look
# for the dependencies here, since on a system of Debian its database is empty.
package=/dist/lbdns-agent-"$VERSION"-1.noarch.rpm
rpm --query --package --requires "$package" | grep -Fx 'python3 >= 3.9'
rpm --query --package --requires "$package" | grep -Fx python3-msgpack
rpm --install --nodeps --force-debian "$package"
rpm --verify --nodeps lbdns-agent
lbdns-agent --version
sample
rpm --erase lbdns-agent
nothing_is_left
