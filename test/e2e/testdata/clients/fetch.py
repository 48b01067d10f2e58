"""fetch.py LIBRARY URL: gets a page as a user of that library would."""

import asyncio
import sys
import urllib.error
import urllib.request


def with_urllib(url):
    try:
        response = urllib.request.urlopen(url)
    except urllib.error.HTTPError as refused:
        response = refused
    with response:
        return response.status, response.headers, response.read().decode()


def with_requests(url):
    import requests

    response = requests.get(url)
    return response.status_code, response.headers, response.text


def with_httpx(url):
    import httpx

    response = httpx.get(url)
    return response.status_code, response.headers, response.text


def with_aiohttp(url):
    import aiohttp

    async def get():
        async with aiohttp.ClientSession(trust_env=True) as session:
            async with session.get(url) as response:
                return response.status, response.headers, await response.text()

    return asyncio.run(get())


libraries = {
    "urllib": with_urllib,
    "requests": with_requests,
    "httpx": with_httpx,
    "aiohttp": with_aiohttp,
}
library, url = sys.argv[1:]
status, headers, body = libraries[library](url)
print(status)
print("Proxy-Status:", headers.get("Proxy-Status"))
print(body)
