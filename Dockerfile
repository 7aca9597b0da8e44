# The grader with bubblewrap, for staff:
#
#     docker build -t minbert-grader .
#     docker run --rm --cap-add SYS_ADMIN --cap-add NET_ADMIN \
#         --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
#         -v "$PWD/submissions:/in:ro" -v "$PWD/gold:/gold:ro" -v "$PWD/grades:/out" \
#         minbert-grader /in --gold /gold --out /out
#
# With the four options bubblewrap can make namespaces, which Docker keeps to itself. The container
# holds nothing else. Its image holds the solution and test labels: keep it as private as those.
FROM python:3.11-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/minbert
COPY requirements.txt requirements-dev.txt ./
RUN grep '^torch==' requirements.txt | xargs pip install --no-cache-dir \
    && pip install --no-cache-dir -r requirements.txt "$(grep '^ruff==' requirements-dev.txt)"
COPY . .
RUN chmod -R o= /opt/minbert
ENTRYPOINT ["python", "-m", "course.grade"]
