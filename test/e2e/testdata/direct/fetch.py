"""fetch.py CLIENT URL: gets a page by a client of Python's that reads no proxy variables."""

import http.client
import socket
import ssl
import sys
from urllib.parse import urlsplit


def by_http_client(url):
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.netloc)
    connection.request("GET", url.path)
    response = connection.getresponse()
    return f"{response.status}\n{response.headers}\n{response.read().decode()}"


def by_socket(url):
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    connection = socket.create_connection((url.hostname, port))
    if url.scheme == "https":
        connection = ssl.create_default_context().wrap_socket(connection, server_hostname=url.hostname)
    connection.sendall(f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n".encode())
    return connection.makefile("rb").read().decode()


def by_aiohttp(url):
    import asyncio

    import aiohttp

    async def get():
        async with aiohttp.ClientSession() as session:
            async with session.get(url.geturl()) as response:
                proxy_status = response.headers.get("Proxy-Status")
                return f"{response.status}\nProxy-Status: {proxy_status}\n{await response.text()}"

    return asyncio.run(get())


clients = {"http.client": by_http_client, "socket": by_socket, "aiohttp": by_aiohttp}
client, url = sys.argv[1:]
print(clients[client](urlsplit(url)))
