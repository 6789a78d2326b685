# Exim: a mail server that has a process for each connection and for each message that it delivers. Twenty bytes to a user of its own,
# ten such messages on each connection, as in the study, whose limits were the kernel's: mounts, directories, processes.
size SENDERS 4 1
size CONNECTIONS 10 3
size MESSAGES 10 4
# It is looked so often whether all are delivered.
PAUSE_S=0.05
WITHIN_S=30

# Messages of one connection are for one user. Who finds a mailbox locked waits until it is free: as Exim comes it sleeps for three
# seconds, and a run would be as long as the chance that two meet.
# Nobody is offered TLS. A daemon without a certificate makes itself one all the same as it starts, for as long as it takes to find large
# primes; one whose name has to be worked out first it does not need before somebody asks.
prepare() {
    need exim4 exim4-daemon-light
    need python3 python3
    mkdir -p "$PLACE/spool" "$PLACE/mail" "$PLACE/log"
    for user in $(seq 0 99); do echo "user$user: user$user"; done >"$PLACE/users"
    cat >"$PLACE/exim.conf" <<END
exim_user = $(as_owner id -un)
exim_group = $(as_owner id -gn)
primary_hostname = localhost
spool_directory = $PLACE/spool
split_spool_directory = true
log_file_path = $PLACE/log/%slog
pid_file_path = $PLACE/exim.pid
deliver_drop_privilege = true
local_interfaces = $HOST
daemon_smtp_ports = $PORT
smtp_accept_max = 0
smtp_accept_queue_per_connection = 0
tls_advertise_hosts =
tls_certificate = \${if eq{no}{tls}{}}
tls_privatekey = \${if eq{no}{tls}{}}
acl_smtp_rcpt = all
$SETTINGS

begin acl
all:
  accept

begin routers
own:
  driver = accept
  local_parts = lsearch;$PLACE/users
  transport = file

begin transports
file:
  driver = appendfile
  file = $PLACE/mail/\$local_part_data
  use_lockfile = false
  lock_fcntl_timeout = ${WITHIN_S}s
END
    cat >"$PLACE/send.py" <<'END'
import os, socket, sys

host = sys.argv[1]
port, processes, connections, messages = (int(word) for word in sys.argv[2:6])


def send(sender):
    for at in range(connections):
        with socket.create_connection((host, port)) as connection, connection.makefile("rwb") as mail:
            def say(line, answer):
                mail.write(line)
                mail.flush()
                told = mail.readline()
                while told[3:4] == b"-":
                    told = mail.readline()
                if not told.startswith(answer):
                    sys.exit(f"{line!r} is answered {told!r}")

            say(b"", b"220")
            say(b"EHLO localhost\r\n", b"250")
            for message in range(messages):
                user = b"user%d" % ((sender * connections + at) % 100)
                say(b"MAIL FROM:<quartier@localhost>\r\n", b"250")
                say(b"RCPT TO:<%s@localhost>\r\n" % user, b"250")
                say(b"DATA\r\n", b"354")
                say(b"\r\ntwenty bytes or so\r\n.\r\n", b"250")
            say(b"QUIT\r\n", b"221")


children = []
for sender in range(processes):
    child = os.fork()
    if child == 0:
        send(sender)
        os._exit(0)
    children.append(child)
if any(os.waitpid(child, 0)[1] for child in children):
    sys.exit("a sender has failed")
END
    hand_over
}

serve() {
    become exim4 -C "$PLACE/exim.conf" -bdf -q30m
}

delivered() {
    cat "$PLACE"/mail/* 2>/dev/null | grep -c "^twenty bytes" || :
}

load() {
    before=$(delivered)
    processes=$((SENDERS * $(nproc)))
    python3 "$PLACE/send.py" "$HOST" "$PORT" "$processes" "$CONNECTIONS" "$MESSAGES"
    # What is accepted is delivered afterwards.
    wanted=$((before + processes * CONNECTIONS * MESSAGES))
    for turn in $(seq 600); do
        [ "$(delivered)" -lt "$wanted" ] || break
        [ "$turn" -lt 600 ] || refuse "of $((wanted - before)) messages some were not delivered within $WITHIN_S s"
        sleep "$PAUSE_S"
    done
    echo "work $((wanted - before))"
}

check() {
    python3 "$PLACE/send.py" "$HOST" "$PORT" 1 1 "$MESSAGES"
    sleep 1
    expect "twenty bytes" cat "$PLACE/mail/user0"
}
