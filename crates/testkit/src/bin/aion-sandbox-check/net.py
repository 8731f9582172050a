"""What an agent's command may do to reach a host; `sandbox-check` runs it behind each wall."""

import http.client
import os
import socket
import urllib.error
import urllib.request


def get(url):
    """A page by plain HTTP."""
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode().strip())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except Exception as error:
        print("failed:", error)


def tunnel(host, port):
    """A page by a tunnel through the proxy."""
    proxy = os.environ.get("HTTPS_PROXY", "").replace("http://", "")
    if not proxy:
        print("failed: there is no proxy")
        return
    try:
        connection = http.client.HTTPConnection(proxy, timeout=20)
        connection.set_tunnel(host, port)
        connection.request("GET", "/")
        print(connection.getresponse().read().decode().strip())
    except Exception as error:
        print("failed:", error)


def socks(host, port):
    """A page by SOCKS 5."""
    proxy = os.environ.get("ALL_PROXY", "").replace("socks5h://", "")
    if not proxy:
        print("failed: there is no proxy")
        return
    stream = socket.create_connection(proxy.split(":"), 20)
    stream.sendall(b"\x05\x01\x00")
    stream.recv(2)
    name = bytes([len(host)]) + host.encode()
    stream.sendall(b"\x05\x01\x00\x03" + name + port.to_bytes(2, "big"))
    code = stream.recv(10)[1]
    if code:
        print("failed: socks", code)
        return
    stream.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    print(stream.recv(4096).decode().split("\r\n\r\n")[1])
