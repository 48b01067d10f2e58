"""webdriver.py [adapted] URL: shows a page as Selenium sees it, with Debian's Chromium."""

import os
import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

os.environ["TMPDIR"] = "/tmp"  # the path of a socket that Chromium makes there must be short
options = webdriver.ChromeOptions()
options.add_argument("--headless")
if os.getuid() == 0:
    options.add_argument("--no-sandbox")
if "adapted" in sys.argv:
    options.accept_insecure_certs = True
    options.add_argument("--disable-features=HttpsUpgrades")
driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
try:
    driver.get(sys.argv[-1])
    print(driver.page_source)
finally:
    driver.quit()
