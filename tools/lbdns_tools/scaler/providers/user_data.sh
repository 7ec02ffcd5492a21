#!/bin/sh
# Installs Apache and lbdns-agent on server {{name}} of farm {{farm}}.
# cloud-init runs this script as root at the first boot of a Debian or Ubuntu machine.
set -eu
umask 022

agent_package=lbdns-agent # a package, or the URL of a wheel
root=${LBDNS_ROOT:-} # empty, except to test this script

command -v apt-get > /dev/null || { echo "this script needs Debian or Ubuntu; set user_data in scaler.toml" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --yes --quiet=2 --no-install-recommends apache2 python3-venv
python3 -m venv "$root/opt/lbdns-agent"
"$root/opt/lbdns-agent/bin/pip" install --quiet "$agent_package"

# The key signs reports in the name of this server only
mkdir -p "$root/etc/lbdns" "$root/etc/systemd/system" "$root/usr/local/sbin"
(umask 077 && printf '%s\n' {{key_line}} > "$root/etc/lbdns/agent.key")

cat > "$root/usr/local/sbin/start-lbdns-agent" << 'SCRIPT'
#!/bin/sh
exec /opt/lbdns-agent/bin/lbdns-agent --key-file "$CREDENTIALS_DIRECTORY/agent.key" {{agent_options}}
SCRIPT
chmod 755 "$root/usr/local/sbin/start-lbdns-agent"

# After=apache2.service also means that the agent stops first and sends its last report
cat > "$root/etc/systemd/system/lbdns-agent.service" << 'UNIT'
[Unit]
Description=lbdns agent
After=network-online.target apache2.service
Wants=network-online.target

[Service]
ExecStart=/usr/local/sbin/start-lbdns-agent
LoadCredential=agent.key:/etc/lbdns/agent.key
ExecReload=/bin/kill -HUP $MAINPID
DynamicUser=yes
AmbientCapabilities=CAP_NET_RAW CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_PERFMON
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
UNIT

systemctl daemon-reload
systemctl enable --now apache2.service lbdns-agent.service
