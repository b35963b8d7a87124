#!/usr/bin/env bash
# trixie.sh SOURCE ROOT: `./run demo` in an empty Debian 13, which it makes in ROOT and removes; it builds without a warning.
# Ends with 77 where it cannot.
set -euo pipefail
[[ $EUID == 0 ]] && command -v debootstrap >/dev/null || { echo "a root of its own needs debootstrap, and to be root"; exit 77; }
source=$1 root=$2
rm -rf "$root"
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"
debootstrap --variant=minbase trixie "$root" >"$root/log" || { cat "$root/log"; exit 1; }
mkdir "$root/src"
tar -C "$source" --exclude=./build --exclude=./.git -c . | tar -C "$root/src" -x
# In a namespace of its own, whose mounts go with it.
unshare --mount bash -ec 'for name in proc dev sys; do mount --rbind "/$name" "$0/$name"; done
  exec chroot "$0" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin /src/run demo' "$root" 2>&1 | tee "$root/log"
! grep -E 'warning: .*\[-W|CMake( Deprecation)? Warning' "$root/log"
