"""The dashboard in headless Chromium. Skipped where chromium or chromedriver is absent."""
