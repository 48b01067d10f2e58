"""A spider that follows every link and knows nothing of robots.txt."""

from urllib.parse import urlsplit

import scrapy


class Spider(scrapy.Spider):
    name = "everything"
    custom_settings = {
        "HTTPERROR_ALLOW_ALL": True,
        "LOG_LEVEL": "WARNING",
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    }

    def start_requests(self):
        pages = self.pages.split(",")
        self.sites = {urlsplit(page).netloc for page in pages}
        for page in pages:
            yield scrapy.Request(page)

    def parse(self, response):
        yield {
            "URL": response.url,
            "Status": response.status,
            "Refused": response.headers.get("Proxy-Status", b"").decode(),
            "Protocol": response.protocol,
        }
        if not response.headers.get("Content-Type", b"").startswith(b"text/html"):
            return
        for link in response.css("a::attr(href)").getall():
            if urlsplit(response.urljoin(link)).netloc in self.sites:
                yield response.follow(link)
