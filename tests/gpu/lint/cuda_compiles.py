"""cuda_compiles.py ROOT NVCC: every kernel file compiles to a cubin for sm_90, with no spill and no warning; prints registers."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

root, nvcc = sys.argv[1:3]
failed = False
files = [f for f in sorted((Path(root) / "src/backend/gpu/kernels").glob("*.cc")) if f.name != "table.cc"]
with tempfile.TemporaryDirectory() as folder:
    for path in files:
        run = subprocess.run([nvcc, "-std=c++17", "-arch=sm_90", "-fmad=false", "-cubin", "-Xptxas", "-v", "-x", "cu", f"-I{root}/src",
                              str(path), "-o", f"{folder}/{path.stem}.cubin"], capture_output=True, text=True)
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", run.stderr)]
        kernels = re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", run.stderr, re.S)
        for name, registers in kernels:
            print(f"{name:24} {registers:>3} registers")
        if run.returncode != 0 or any(spills) or "warning" in run.stderr or not kernels:
            failed = True
            print(f"{path.name}: status {run.returncode}, spills {spills}\n{run.stderr}")
sys.exit(failed or not files)
