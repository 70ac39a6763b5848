# The installation with the default model in two stages: the first has the compiler of the C kernel, the second serves.
#   docker build -t aidre .
#   docker run --rm --network host --read-only --tmpfs /tmp -v aidre:/data aidre
# BUILD and BASE are images of the same release of Debian, with Python 3.11 or newer at the same place. A tag can be moved:
# where that matters, give them as digests, as in --build-arg BASE=python@sha256:... (docker buildx imagetools inspect).
ARG BUILD=python:3.11.14-bookworm
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BUILD} AS build
# Libraries beside those that aidre needs, at the versions of constraints.txt: object storage.
ARG EXTRAS="obstore"
# Folders of packages/: "rows postgres" adds PostgreSQL, whose driver EXTRAS="obstore psycopg psycopg-binary" brings.
ARG PACKAGES=""
# Models that are in the image: default, multilingual. Others are fetched into the volume, before the server is ready.
ARG MODELS="default"
COPY . /src
RUN python3 -m venv /opt/aidre \
 && /opt/aidre/bin/python -m pip install --no-cache-dir -c /src/constraints.txt /src/packages/client /src $EXTRAS \
      $(for name in $PACKAGES; do echo /src/packages/$name; done) \
 && /opt/aidre/bin/python -c "from aidre.engine.native import kernel_name; assert kernel_name() != 'faiss', 'no kernel'" \
 && for name in $MODELS; do /opt/aidre/bin/aidre model add $name --into /opt/aidre/share/aidre || exit 1; done \
 && /opt/aidre/bin/python -m pip uninstall -q -y pip setuptools
# What aidre never imports, 120 MB: parts of Arrow and of ONNX Runtime for other tasks, sources, tests of libraries.
RUN cd /opt/aidre/lib/python3*/site-packages \
 && rm -rf pyarrow/include pyarrow/src pyarrow/*flight* pyarrow/libarrow_s3* pyarrow/_s3fs* \
      numpy/*/include onnxruntime/transformers onnxruntime/tools onnxruntime/quantization \
 && find . -type d -name tests -prune -exec rm -rf {} + \
 && find . -type f \( -name "*.c" -o -name "*.pyx" -o -name "*.pxd" -o -name "*.h" \) -delete \
 && find pyarrow -name "libarrow_python*.so.*.*.*" -delete

FROM ${BASE}
RUN groupadd --gid 10001 aidre \
 && useradd --uid 10001 --gid 10001 --no-log-init --home-dir /data --no-create-home --shell /usr/sbin/nologin aidre \
 && install -d -o aidre -g aidre -m 0750 /data
COPY --from=build /opt/aidre /opt/aidre
# All that is written is on the one volume: the store, and the graph of the model, which is made on the machine that
# runs it.
ENV PATH=/opt/aidre/bin:$PATH AIDRE_STORE=/data/store AIDRE_CACHE=/data/cache PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
# Beyond loopback: aidre serve --config /etc/aidre/aidre.toml --host 0.0.0.0, with base_url and tls in that file.
CMD ["aidre", "serve"]
