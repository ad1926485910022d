@echo off
rem SPDX-License-Identifier: MIT
rem Tries bee and skep on this PC and writes result.txt and result.json. It installs nothing,
rem needs no administrator and writes to this folder alone.
setlocal
cd /d "%~dp0"
set result=result.txt
set bad=0
echo Skep: testing this PC. This takes up to ten minutes.

echo == system > %result%
ver >> %result%
echo processor %PROCESSOR_IDENTIFIER%, %NUMBER_OF_PROCESSORS% CPUs >> %result%

echo == bee --probe >> %result%
bee.exe --probe >> %result% 2>&1
if errorlevel 1 call :failed "bee --probe"

echo == bee hello >> %result%
bee.exe programs\musl\hello >> %result% 2>&1
if not errorlevel 7 call :failed "bee hello"

echo == skep version >> %result%
skep.exe version >> %result% 2>&1
if errorlevel 1 call :failed "skep version"

echo == skep doctor >> %result%
skep.exe doctor --state state >> %result% 2>&1
if errorlevel 1 call :failed "skep doctor"

echo == programs >> %result%
skep.exe kit . >> %result% 2>&1
if errorlevel 1 call :failed "programs"

echo == skep bench >> %result%
skep.exe bench --report result.json --kit . >> %result% 2>&1
if errorlevel 1 call :failed "skep bench"

echo == end, %bad% parts failed >> %result%
echo Done: %bad% parts failed. The results are %result% and result.json, in %~dp0
exit /b %bad%

:failed
echo FAILED: %~1 >> %result%
echo FAILED: %~1
set /a bad=bad+1
exit /b 0
