# The Containerfile's image is built, and a container of it answers as an ordinary user. Podman's files are in $FOLDER.
pod() {
    podman --root "$FOLDER/root" --runroot "$FOLDER/run" --storage-driver overlay --cgroup-manager cgroupfs \
        --events-backend none "$@"
}

# crun cannot run containers where systemd mounts version 2 of control groups beside version 1
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
# Limits that any host permits
printf '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n' > "$FOLDER/containers.conf"
export CONTAINERS_CONF="$FOLDER/containers.conf"
trap 'pod rm --force --time 0 lbdns' EXIT

pod import "$BASE" localhost/debian:trixie-slim
pod build --format docker --network host --isolation chroot --build-arg BASE=localhost/debian:trixie-slim \
    --tag localhost/lbdns --file "$SOURCE/packaging/Containerfile" "$DIST"
pod run --detach --name lbdns --network none localhost/lbdns
for _ in $(seq 240); do
    if pod logs lbdns 2>&1 | grep 'ready: 1 zone, 1 pool, native plane'; then break; fi
    sleep 0.5
done
pod logs lbdns 2>&1 | grep 'ready: 1 zone, 1 pool, native plane'
pod exec lbdns lbdns ask best.example.com | grep -E 'web[12].example.com.[[:space:]]+0[[:space:]]+IN[[:space:]]+A[[:space:]]+192.0.2.[12]'
pod exec lbdns id | grep -E 'uid=[1-9][0-9]*\(lbdns\)'
pod exec lbdns grep -E 'Uid:([[:space:]]+[1-9][0-9]*){4}$' /proc/1/status
pod exec lbdns lbdns reload
pod healthcheck run lbdns
server=$(pod inspect --format '{{.State.Pid}}' lbdns)
kill -STOP "$server"
fails pod healthcheck run lbdns
kill -CONT "$server"
pod stop --time 60 lbdns
[ "$(pod inspect --format '{{.State.ExitCode}}' lbdns)" = 0 ]
