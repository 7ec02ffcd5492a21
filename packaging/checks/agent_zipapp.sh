# The agent as one file needs nothing but Python: with -S, Python does not find the packages of the system.
fails python3 -I -S -c 'import msgpack'
python3 -I -S /dist/lbdns-agent.pyz --version
cp /dist/lbdns-agent.pyz /usr/local/bin/lbdns-agent
sample
python3 - <<'PYTHON'
import socket, subprocess

collector = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
collector.bind(("127.0.0.1", 0))
collector.settimeout(60)
end_point = f"127.0.0.1:{collector.getsockname()[1]}"
options = ["--collector", end_point, "--name", "web1", "--gateway", "off", "--server-status", "off"]
agent = subprocess.Popen(["python3", "-I", "-S", "/dist/lbdns-agent.pyz", *options])
report = collector.recv(2000)
agent.terminate()
assert agent.wait(60) == 0
assert report[:4] == b"LBR1" and report[9:13] == b"web1", report
PYTHON
