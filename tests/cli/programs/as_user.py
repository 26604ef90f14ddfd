"""Requests a page as another user of this machine; a port and the number of the user."""

import encodings.idna  # noqa: F401  # the other user may not read it
import os
import socket
import sys

os.setuid(int(sys.argv[2]))
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.1\r\nConnection: close\r\n\r\n")
    while data := connection.recv(65536):
        sys.stdout.buffer.write(data)
